import { closestString } from "@std/text/closest-string";
import { levenshteinDistance } from "@std/text/levenshtein-distance";

/**
 * Returns the end of a message that suggests a correction: `; did you mean list?`
 *
 * @param words The valid words.
 * @returns An empty text if no valid word is similar enough.
 */
export function didYouMean(word: string, words: readonly string[]): string {
  const meant = findSimilar(word, words);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

/** Returns the most similar word; `undefined` if none differs only by one typing error, or two in a longer word. */
export function findSimilar(
  word: string,
  words: readonly string[],
): string | undefined {
  if (words.length === 0) return undefined;
  const closest = closestString(word, words, { caseSensitive: true });
  const maxErrors = word.length < 4 ? 1 : 2;
  return levenshteinDistance(word, closest) <= maxErrors ? closest : undefined;
}
