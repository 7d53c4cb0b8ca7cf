import { describe, expect, it } from "vitest";
import { safeText } from "../src/dom";

describe("foreign text", () => {
  it("shows what can't be seen, or turns text around, as a mark", () => {
    expect(safeText("a\u202eb\u2066c\u200fd")).toBe("a\ufffdb\ufffdc\ufffdd");
    expect(safeText("\u001b[31m\u0000\u0085\u007f")).toBe("\ufffd[31m\ufffd\ufffd\ufffd");
  });
  it("leaves what people write as it is", () => {
    for (const text of ["two\nlines\tand a tab", "模型 한국어 ä é", "\u05e9\u05dc\u05d5\u05dd", "👩‍💻", ""]) expect(safeText(text)).toBe(text);
  });
});
