// One script and one style sheet; build/inline.mjs makes one file of them.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "rousePage", fileName: () => "page.js" },
    outDir: "dist",
    emptyOutDir: true,
    rollupOptions: { output: { assetFileNames: "page[extname]" } },
  },
});
