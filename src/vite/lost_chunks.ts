/** The module that the plugin adds to the entry. The `\0` tells other plugins that it is not a file. */
const MODULE = "virtual:rep/lost-chunks";
const MODULE_ID = `\0${MODULE}`;

const CODE = `import { reloadOnLostChunk } from "@rep/gateway/lost-chunks";
reloadOnLostChunk();
`;

/** What Vite offers to a hook. */
interface Resolver {
  /** Finds a module as a file would that imports it. */
  resolve(id: string, importer: string | undefined): Promise<unknown>;
}

/** Returns the hooks of a plugin that lets a page of a build reload when another build has replaced a lazy chunk of it. */
export function lostChunks() {
  return {
    resolveId(this: Resolver, id: string, importer?: string) {
      if (importer === MODULE_ID) return this.resolve(id, import.meta.filename); // the app may not depend on the package itself
      return id === MODULE ? MODULE_ID : undefined;
    },
    load(id: string) {
      return id === MODULE_ID ? CODE : undefined;
    },
    /** Before Vite bundles the scripts of the page, so that none is inline. The development server replaces no chunks. */
    transformIndexHtml: {
      order: "pre",
      handler(_html: string, { server }: { readonly server?: unknown }) {
        if (server !== undefined) return [];
        return [{
          tag: "script",
          attrs: { type: "module" },
          children: `import "${MODULE}";`,
          injectTo: "head-prepend",
        }];
      },
    },
  };
}
