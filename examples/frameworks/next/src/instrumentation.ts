/** Starts the gateway with the server, so that the first page has values as well. */
export async function register(): Promise<void> {
  if (process.env["NEXT_RUNTIME"] !== "nodejs") return;
  const { getGateway } = await import("./gateway");
  await getGateway();
}
