/** Without a route, the middleware would not see `/rep/*`. */
export function loader(): Response {
  return new Response(null, { status: 404 });
}
