/** The script of a page that reads a flag with OpenFeature's SDK for React, over OFREP. */
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import {
  OpenFeature,
  OpenFeatureProvider,
  useStringFlagValue,
} from "@openfeature/react-sdk";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

function Title() {
  return createElement("h1", null, useStringFlagValue("TITLE", "none"));
}

OpenFeature.setProvider(new OFREPWebProvider({ baseUrl: location.origin }));
createRoot(document.body).render(
  createElement(OpenFeatureProvider, null, createElement(Title)),
);
