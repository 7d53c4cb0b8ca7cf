// One script and one style sheet for each page: `vite build` makes those of a report, `vite build
// --mode runs` those of the list of runs; build/inline.mjs makes one file of each pair.
import { defineConfig } from "vite";

export default defineConfig(({ mode }) => {
  const name = mode === "runs" ? "runs" : "page";
  return {
    // Node's own NODE_ENV does not choose: the mode here is a page's name, not a kind of build.
    define: { "process.env.NODE_ENV": JSON.stringify("production") },
    build: {
      target: "es2022",
      cssCodeSplit: false,
      minify: true,
      lib: { entry: name === "runs" ? "src/runs.ts" : "src/main.ts", formats: ["iife"], name: `rouse_${name}`, fileName: () => `${name}.js` },
      outDir: "dist",
      emptyOutDir: name === "page",
      rollupOptions: { output: { assetFileNames: `${name}[extname]` } },
    },
  };
});
