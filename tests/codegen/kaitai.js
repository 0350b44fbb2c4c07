// Compiles .ksy files, all in one process, or reads bytes with what was compiled.
//
//   node kaitai.js compile KSY_FOLDER OUT LANGUAGE...     a folder a language in OUT
//   node kaitai.js read FOLDER < lines > lines            {"type", "args", "bytes"} -> {"tree"} or {"error"}
const fs = require("fs");
const path = require("path");
const readline = require("readline");

async function compile(source, out, ...languages) {
  const compiler = require("kaitai-struct-compiler");
  const yaml = require("js-yaml");
  const files = {};
  for (const name of fs.readdirSync(source)) {
    files[path.basename(name, ".ksy")] = yaml.load(fs.readFileSync(path.join(source, name), "utf8"));
  }
  // One root that imports everything: each file is compiled once, not with each that imports it.
  const everything = { meta: { id: "everything", imports: Object.keys(files) } };
  const importer = { importYaml: (name) => Promise.resolve(files[name]) };
  for (const language of languages) {
    const made = await compiler.compile(language, everything, importer, false);
    for (const [name, text] of Object.entries(made)) {
      const file = path.join(out, language, name);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, text);
    }
  }
}

function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString("hex") };
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "bigint") return { integer: String(value) };
  if (value === null || typeof value !== "object") return value;
  const tree = {};
  for (const [key, item] of Object.entries(value)) {
    if (!key.startsWith("_") && item !== undefined) tree[key.toLowerCase()] = plain(item);
  }
  for (const key of ["value", "raw"]) {
    if (!(key in tree) && value[key] !== undefined) tree[key] = plain(value[key]);
  }
  return tree;
}

async function read(folder) {
  const KaitaiStream = require("kaitai-struct/KaitaiStream");
  // Two faults of the runtime, which is not what is tested here: it rounds to 53 bits, and below -2^31 it loses a carry
  // (kaitai_struct_javascript_runtime#16); it drops a byte order mark at the beginning of a string.
  KaitaiStream.prototype.readS8be = function () {
    return Buffer.from(this.readBytes(8)).readBigInt64BE();
  };
  KaitaiStream.bytesToStr = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true, fatal: true }).decode(bytes);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { type, args, bytes } = JSON.parse(line);
    let answer;
    try {
      const made = require(path.join(folder, type + ".js"))[type];
      const stream = new KaitaiStream(Uint8Array.from(Buffer.from(bytes, "hex")).buffer);
      answer = { tree: plain(new made(stream, null, null, ...args)), consumed: stream.pos };
    } catch (error) {
      answer = { error: String(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}

const [command, ...rest] = process.argv.slice(2);
({ compile, read })[command](...rest).catch((error) => {
  process.stderr.write(String(error) + "\n");
  process.exit(1);
});
