import { findPostgres } from "../tools/postgres.ts";
import { testMultipleGateways } from "./_multi_gateway.ts";
import { postgres } from "./_postgres.ts";

const bin = await findPostgres();

testMultipleGateways(bin === undefined ? undefined : postgres(bin), "PostgreSQL (Debian's package postgresql)");
