import { gateway } from "../gateway.server";
import type { Route } from "./+types/rep";

/** Answers `/rep/*`. */
export async function loader({ request }: Route.LoaderArgs) {
  const response = await gateway?.handle(request);
  return response ?? new Response(null, { status: 404 });
}
