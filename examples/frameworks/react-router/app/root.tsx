import { Links, Meta, Outlet, Scripts, ScrollRestoration } from "react-router";
import type { ReactNode } from "react";
import { gateway } from "./gateway.server";
import type { Route } from "./+types/root";

/** Puts the configuration into pages, with the values that they are rendered with. */
export const middleware: Route.MiddlewareFunction[] = [
  async ({ request }, next) => {
    if (gateway === undefined) return await next();
    const { inject, run } = gateway;
    return await run(async () => await inject(await next(), request));
  },
];

export function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}
