import { connection } from "next/server";
import { getGateway } from "../gateway";
import "./globals.css";

export const instant = false; // with `cacheComponents`: the page waits for its configuration

export default async function RootLayout({ children }: LayoutProps<"/">) {
  await connection(); // a build has no values
  const gateway = await getGateway();
  const script = await gateway.configScript();
  return (
    <html lang="en">
      <body>
        <div hidden dangerouslySetInnerHTML={{ __html: script }} />
        {children}
      </body>
    </html>
  );
}
