import { getGateway, PEER } from "../../../gateway";

/** Answers `/rep/*`. */
export async function GET(request: Request): Promise<Response> {
  const gateway = await getGateway();
  const hostname = request.headers.get(PEER) ?? "";
  const remoteAddr = { transport: "tcp" as const, hostname };
  return await gateway.fetch(request, { remoteAddr });
}
