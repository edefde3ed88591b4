/** Write the device as one file for pages, beside what it loads later: `npm run bundle`. */
import { readFile } from "node:fs/promises";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { build } from "esbuild";

/** What a message of descriptor.proto holds that no field of our messages uses: options and the places of sources. */
const UNUSED = /(?<!Field|Message)Options$|^FeatureSet|Info$|^UninterpretedOption$/;

function emptied(file) {
  const messageType = file.messageType.map((message) => (UNUSED.test(message.name) ? { name: message.name } : message));
  return { ...file, messageType };
}

/** The same file without options, which name packages of other languages, and without services, which nothing here calls by name: as text, whose words compress. */
function bare(encoded) {
  const { options, service, ...file } = fromBinary(FileDescriptorProtoSchema, Buffer.from(encoded, "base64"));
  const bytes = toBinary(FileDescriptorProtoSchema, { ...file, service: [] });
  return `btoa(${JSON.stringify(Buffer.from(bytes).toString("latin1"))})`;
}

/** Generated code without enums that nothing uses, and without messages that no file of ours holds. */
const generated = {
  name: "generated",
  setup({ onLoad }) {
    onLoad({ filter: /(timestamp|duration|campaign|collector|report)_pb\.[jt]s$/ }, async ({ path }) => ({
      loader: "ts",
      contents: (await readFile(path, "utf8")).replace(/fileDesc\("(\w[^"]*)"/, (_, encoded) => `fileDesc(${bare(encoded)}`),
    }));
    onLoad({ filter: /descriptor_pb\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const made = /export var (\w+);\n\(function \(\1\) \{\n([^]*?)\n\}\)\(\1 \|\| \(\1 = \{\}\)\);/g;
      const pure = text.replace(made, "export const $1 = /* @__PURE__ */ (($1) => {\n$2\nreturn $1;\n})({});");
      return { contents: pure.replace(/boot\((\{.*\})\)/, (_, file) => `boot(${JSON.stringify(emptied(JSON.parse(file)))})`) };
    });
  },
};

const common = { outdir: "../../apps/geoveil/gateway/files", bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none" };

await build({
  ...common,
  entryPoints: { "geoveil-client": "src/index.ts", "geoveil-numbers": "src/numbers.ts" },
  chunkNames: "geoveil-[name]",
  splitting: true,
  plugins: [generated],
});
// What pages are built on, and an element for pages of others: beside the device, which they load as it is.
const shared = { "./index.js": "client", "./numbers.js": "numbers", "./questions.js": "survey", "./survey.js": "survey", "./texts.js": "client", "./words.js": "client" };
const beside = {
  name: "beside",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\// }, ({ path, importer }) => {
      const inside = importer === "<stdin>" || (shared[path] === "survey" && !importer.endsWith("element.ts"));
      return shared[path] && !inside ? { path: `./geoveil-${shared[path]}.js`, external: true } : undefined;
    });
  },
};
const contents = 'export * from "./questions.js"; export * from "./survey.js"; export * from "./ways.js";';
const outfile = (name) => ({ outdir: undefined, outfile: `${common.outdir}/geoveil-${name}.js`, plugins: [beside] });
await build({ ...common, ...outfile("survey"), stdin: { contents, resolveDir: "src" } });
await build({ ...common, ...outfile("element"), entryPoints: ["src/element.ts"] });
// Loaded where a place is asked for. A worker of maps is a file of this origin, which strict policies demand.
await build({
  ...common,
  entryPoints: { "geoveil-map": "map.mjs", "geoveil-map-worker": "node_modules/maplibre-gl/dist/maplibre-gl-worker.mjs" },
});
