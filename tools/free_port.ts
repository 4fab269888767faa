/** Below the ports that systems choose themselves, for port 0 and for connections: from 32,768 on with Linux. */
const [FIRST, LAST] = [11_000, 31_999];

/**
 * Returns a port of 127.0.0.1 on which nobody listens, for a program that cannot choose one itself or that is started
 * again on the same port. Unlike a port that the system chose, no other program gets it by chance in the meantime.
 */
export function findFreePort(): number {
  for (;;) {
    const port = FIRST + Math.floor((LAST - FIRST) * Math.random());
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}
