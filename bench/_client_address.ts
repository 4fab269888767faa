/** Returns the address of a client by its number: those of 10.0.0.0/8 are private (RFC 6890). */
export function clientAddress(client: number): string {
  return `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`;
}
