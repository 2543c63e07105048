// CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of a record batch, computed by a native add-on or else by WebAssembly.
//
// The client's own function calls the same add-on after copying the bytes, which takes 1.8 times as long.

import { createRequire } from 'node:module'

interface Checksums {
  readonly crc32c: (bytes: Uint8Array) => number
}

const require = createRequire(import.meta.url)

/** The add-on is prebuilt for common systems; WebAssembly takes three and a half times as long. */
function load(): Checksums {
  try {
    return require('@node-rs/crc32') as Checksums
  } catch {
    return require('@platformatic/wasm-utils') as Checksums
  }
}

const { crc32c: signed } = load()

/** The checksum as an unsigned number. */
export function crc32c(bytes: Uint8Array): number {
  return signed(bytes) >>> 0
}
