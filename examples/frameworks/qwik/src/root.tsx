import { component$, useServerData } from "@builder.io/qwik";
import { QwikCityProvider, RouterOutlet } from "@builder.io/qwik-city";
import { RouterHead } from "./components/router-head/router-head";

import "./global.css";

export default component$(() => {
  const configScript = useServerData<string>("configScript");
  return (
    <QwikCityProvider>
      <head>
        <meta charset="utf-8" />
        <RouterHead />
      </head>
      <body lang="en">
        <div hidden dangerouslySetInnerHTML={configScript} />
        <RouterOutlet />
      </body>
    </QwikCityProvider>
  );
});
