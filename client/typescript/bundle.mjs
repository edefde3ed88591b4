/** Write the device as one file for pages, beside what it loads later: `npm run bundle`. */
import { readFile } from "node:fs/promises";
import { build } from "esbuild";

/** Enums of generated code, in a form that is left out where nothing uses it. */
const enums = {
  name: "enums",
  setup({ onLoad }) {
    onLoad({ filter: /descriptor_pb\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const made = /export var (\w+);\n\(function \(\1\) \{\n([^]*?)\n\}\)\(\1 \|\| \(\1 = \{\}\)\);/g;
      return { contents: text.replace(made, "export const $1 = /* @__PURE__ */ (($1) => {\n$2\nreturn $1;\n})({});") };
    });
  },
};

await build({
  entryPoints: { "geoveil-client": "src/index.ts", "geoveil-numbers": "src/numbers.ts" },
  outdir: "../../apps/geoveil/gateway/files",
  chunkNames: "geoveil-[name]",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  plugins: [enums],
});
