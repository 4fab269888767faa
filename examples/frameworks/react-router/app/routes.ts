import { index, route, type RouteConfig } from "@react-router/dev/routes";

export default [
  index("routes/home.tsx"),
  route("rep/*", "routes/rep.ts"),
] satisfies RouteConfig;
