import { levenshteinDistance } from "@std/text/levenshtein-distance";

/**
 * Returns the end of a message that suggests a correction: `; did you mean list?`
 *
 * @param words The valid words.
 * @returns An empty text if none of them differs from the word by a typing error only.
 */
export function didYouMean(word: string, words: readonly string[]): string {
  const closest = closestWord(word, words);
  return closest === undefined ? "" : `; did you mean ${closest}?`;
}

function closestWord(word: string, words: readonly string[]): string | undefined {
  const maxErrors = word.length < 4 ? 1 : 2;
  const candidates = words.filter(({ length }) => Math.abs(length - word.length) <= maxErrors);
  const rated = candidates.map((candidate) => ({ candidate, errors: countErrors(word, candidate) }));
  const [closest] = rated.filter(({ errors }) => errors <= maxErrors).sort((a, b) => a.errors - b.errors);
  return closest?.candidate;
}

/** Swapped letters are one error. */
function countErrors(word: string, candidate: string): number {
  const isSwapped = word !== candidate && sortLetters(word) === sortLetters(candidate);
  return isSwapped ? 1 : levenshteinDistance(word, candidate);
}

function sortLetters(word: string): string {
  return [...word].sort().join("");
}
