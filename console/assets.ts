// The files of the console's page: read, compressed and hashed once, at the first request.
//
// Browsers resolve no names of packages, so `from 'preact'` becomes the address of the package's file, and nothing else is changed.

import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

const folder = fileURLToPath(new URL('page', import.meta.url))
const packages = fileURLToPath(new URL('../node_modules', import.meta.url))

/** Files of packages that browsers load, by the name in imports. */
export const libraries: Readonly<Record<string, string>> = {
  preact: 'preact/dist/preact.mjs',
  'preact/hooks': 'preact/hooks/dist/hooks.mjs',
  htm: 'htm/dist/htm.module.js',
  'htm/preact': 'htm/preact/index.module.js',
  uplot: 'uplot/dist/uPlot.esm.js',
  'eventsource-parser': 'eventsource-parser/dist/index.js',
}
/** Files that the ones above, or the page, refer to by their path. */
const furtherFiles = ['eventsource-parser/dist/parse.js', 'eventsource-parser/dist/errors.js', 'uplot/dist/uPlot.min.css']
/** Below `node_modules`. */
export const vendoredFiles: readonly string[] = [...Object.values(libraries), ...furtherFiles]
const vendorFolder = 'vendor'

const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

export interface Asset {
  readonly mediaType: string
  readonly etag: string
  readonly bytes: Buffer
  readonly gzipped: Buffer
}

/** Every file by its path below `/console/`: `views/overview.js`, `vendor/preact/dist/preact.mjs`. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  const own = (await readdir(folder, { recursive: true }))
    .filter(path => extname(path) in mediaTypes)
    .map(path => path.replaceAll('\\', '/'))
  const read = own.map(path => readAsset(path, join(folder, path)))
  const vendored = vendoredFiles.map(path => readAsset(`${vendorFolder}/${path}`, join(packages, path)))
  return new Map(await Promise.all([...read, ...vendored]))
}

async function readAsset(path: string, file: string): Promise<[string, Asset]> {
  const mediaType = mediaTypes[extname(path)]!
  const text = await readFile(file, 'utf8')
  const bytes = Buffer.from(mediaType.startsWith('text/javascript') ? withAddresses(text, path) : text)
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
  return [path, { mediaType, etag, bytes, gzipped: await promisify(gzip)(bytes) }]
}

/** The module with addresses instead of names of packages, relative to itself, so that the page works below any prefix of a proxy. */
function withAddresses(text: string, path: string): string {
  return text.replace(/\bfrom\s*(['"])([^'"./][^'"]*)\1/g, (all, quote: string, name: string) => {
    const library = libraries[name]
    if (library === undefined) return all
    return `from ${quote}${posix.relative(dirname(path), `${vendorFolder}/${library}`).replace(/^(?!\.)/, './')}${quote}`
  })
}
