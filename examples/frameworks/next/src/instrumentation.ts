/** Starts the gateway with the server, so that even the first page contains values. */
export async function register(): Promise<void> {
  if (process.env["NEXT_RUNTIME"] !== "nodejs") return;
  const { startOrExit } = await import("./gateway");
  await startOrExit();
}
