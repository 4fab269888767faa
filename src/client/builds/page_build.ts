/** The part of a browser's `Document` that is used. */
export interface PageDocument {
  getElementById(
    id: string,
  ): { readonly dataset: Readonly<Record<string, string>> } | null;
}

/** Returns the ID of the build that delivered a page; `undefined` if it is unknown. */
export function buildOf(document: PageDocument): string | undefined {
  return document.getElementById("__rep__")?.dataset["repBuild"];
}
