import { connectionInfo } from "@rep/gateway/server";
import { getGateway } from "../../../gateway";

/** Answers `/rep/*`. */
export async function GET(request: Request): Promise<Response> {
  const gateway = await getGateway();
  return await gateway.fetch(request, connectionInfo());
}
