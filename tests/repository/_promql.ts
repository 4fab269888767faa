/** Returns the metrics in a query: of the gateway, of its requests and of its process. */
export function metricsIn(query: string): string[] {
  const series = query.match(/\b(rep|http_server|process)_[a-z_]+/g) ?? [];
  return series.map((name) => name.replace(/_(bucket|count)$/, ""));
}
