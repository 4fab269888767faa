/** What a build hashes: what pages load. Data and documents may be named by an ID that looks like a hash. */
const ASSET =
  /\.(?:[cm]?js|css|map|wasm|woff2?|[ot]tf|eot|svg|png|jpe?g|gif|webp|avif|ico|mp[34]|webm|ogg)$/i;

/** Assets that are hardly ever named by an ID or after a product. */
const CODE = /\.(?:[cm]?js|css|map|wasm)$/;

/** How many files with a certain hash have to be beside one that only may have one. */
const MIN_CERTAIN = 2;

/**
 * Returns whether a file name contains a hash of the content, as bundlers generate it: `index-BxY12_9a.js`,
 * `main.3f2a9c1d.css`, `chunk-5XQJ2K7A.js`. Such a file never changes, so caches may keep it without revalidation.
 *
 * If in doubt, the result is `false`: a hash without digits (`index-DiwrgTda.js`) looks like words in camel case, and
 * others like products (`logo-iOS17Pro.png`). Revalidating a file that never changes costs a round trip; keeping one
 * that does change would hide the update.
 *
 * @param siblings All names in the directory. Beside files that certainly have a hash, scripts and styles of the same
 * form have one, too.
 */
export function isHashedName(
  name: string,
  siblings: ReadonlySet<string>,
): boolean {
  if (hasHash(name, isCertain)) return true;
  return CODE.test(name) && hasHash(name, isPossible) &&
    countCertain(siblings) === MIN_CERTAIN;
}

function countCertain(names: ReadonlySet<string>): number {
  return [
    ...names.values().filter((name) => hasHash(name, isCertain)).take(
      MIN_CERTAIN,
    ),
  ].length;
}

/** A part of a name that may be a hash. */
interface Candidate {
  readonly text: string;
  /** What is before it; nothing if it is the whole name. */
  readonly separator: "." | "-" | "";
  readonly isCode: boolean;
}

function hasHash(
  name: string,
  isHash: (candidate: Candidate) => boolean,
): boolean {
  if (!ASSET.test(name)) return false;
  const isCode = CODE.test(name);
  return name.split(".").slice(0, -1).some((part, index) => {
    const whole = { text: part, separator: index > 0 ? "." : "" } as const;
    return [whole, ...afterDashes(part)].some((candidate) =>
      isHash({ ...candidate, isCode })
    );
  });
}

/** Most hashes have this length. Those of Rollup may contain a dash. */
const LENGTH = 8;

function afterDashes(part: string) {
  const dashes = [part.lastIndexOf("-"), part.length - LENGTH - 1].filter((
    dash,
  ) => part[dash] === "-");
  return dashes.map((dash) =>
    ({ text: part.slice(dash + 1), separator: "-" }) as const
  );
}

/** Names that are hexadecimal: the months in the date 2026dec24. */
const HEX_WORD = /dec|feb/;

/** What hardly any hash contains, but names such as `MP3toWAV` and `R2D2C3PO` do. */
const HUMAN = /(?<![a-z])(?:to|vs)(?![a-z])|(?:[A-Za-z]\d){3}/;

/** Returns whether nobody would choose such a name. */
function isCertain({ text, separator, isCode }: Candidate): boolean {
  if (/^[\da-f]+$/.test(text)) return isHex(text, separator, isCode);
  if (text.length !== LENGTH || (separator === "" && !isCode)) return false;
  // Two digits in a row, or five letters, are more often the number or the name of a product.
  if (isBase32(text)) return groupsOf(text) > 2 && !/\d\d|[A-Z]{5}/.test(text);
  return isBase64Url(text) && groupsOf(text) > 4 &&
    new Set(text.toLowerCase()).size > 6;
}

/** Returns whether a script or style of a build may well have such a name. */
function isPossible({ text, separator }: Candidate): boolean {
  if (text.length !== LENGTH || separator === "") return false;
  return isBase32(text)
    ? groupsOf(text) > 2
    : isBase64Url(text) && groupsOf(text) > 3;
}

/** webpack (20, or 8 by habit), Next.js and Angular with webpack (16), Parcel (8). IDs of images often follow a dash. */
function isHex(
  text: string,
  separator: Candidate["separator"],
  isCode: boolean,
): boolean {
  const isDelimited = separator === "." || (separator === "-" && isCode);
  const isLength = text.length === 20 ||
    (isDelimited && (text.length === LENGTH || text.length === 16));
  return isLength && groupsOf(text) > 2 && !HEX_WORD.test(text);
}

/** esbuild, and Angular with it. */
function isBase32(text: string): boolean {
  return /^(?=.*\d)(?=.*[A-Z])[A-Z2-7]+$/.test(text) && !HUMAN.test(text) &&
    new Set(text).size > 5;
}

/** Rollup and Vite. */
function isBase64Url(text: string): boolean {
  return /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]+$/.test(text) &&
    !HUMAN.test(text);
}

/** Counts the groups of letters, as in camel case, and of digits: two in a word with a number, more in a hash. */
function groupsOf(text: string): number {
  return text.match(/[A-Z]?[a-z]+|[A-Z]+|\d+/g)?.length ?? 0;
}
