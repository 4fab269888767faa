/**
 * Assigns keys to nodes by rendezvous hashing: a key belongs to the node whose hash together with the key is the
 * highest. So the order of the nodes does not matter, and with one node more or less, only the keys of that node move.
 * With a remainder (`hash % nodes`), nearly all would.
 *
 * @param names The names of the nodes, which have to be the same wherever the same key must have the same node.
 * @returns A function that returns the index of a key's node.
 */
export function rendezvous(names: readonly string[]): (key: string) => number {
  const seeds = names.map((name) => addText(OFFSET, `${name}\0`));
  if (seeds.length === 1) return () => 0;
  return (key) => {
    const hashes = seeds.map((seed) => mix(addText(seed, key)));
    return hashes.indexOf(Math.max(...hashes));
  };
}

/** FNV-1a with 32 bits (draft-eastlake-fnv). */
const OFFSET = 0x811c9dc5;
const PRIME = 0x01000193;

function addText(hash: number, text: string): number {
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), PRIME);
  return hash;
}

/**
 * The finalizer of MurmurHash3: the high bits of FNV-1a depend little on the last characters, in which addresses
 * differ.
 */
function mix(hash: number): number {
  hash = Math.imul(hash ^ hash >>> 16, 0x85ebca6b);
  hash = Math.imul(hash ^ hash >>> 13, 0xc2b2ae35);
  return (hash ^ hash >>> 16) >>> 0;
}
