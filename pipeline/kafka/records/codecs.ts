// Decompresses record batches with a size limit: gzip and zstd by node:zlib, snappy and lz4 by WebAssembly. A size declared in the
// data never determines an allocation.

import { createRequire } from 'node:module'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import type * as WasmUtils from '@platformatic/wasm-utils'
import { type BatchLocation, corruptBatch, largeBatch, refusedBatch } from './corrupt-batch.ts'
import { lz4LengthMax } from './lz4-frame.ts'
import { snappyBlocks, snappyLength } from './snappy-blocks.ts'

/** Largest decompressed batch. */
export const expandedBytesMax = 64 * 1024 * 1024

/** Chunk size of decompressors: fewer pieces to join than with node:zlib's default of 16 KiB. */
const chunkSize = 128 * 1024

const names = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const

/** The data expands beyond the limit. */
class ExpansionError extends Error {
  override readonly name = 'ExpansionError'
}

let loaded: typeof WasmUtils | undefined

/** Loaded for the first batch that needs it. Its memory grows to the largest batch and is never freed, so its input is limited first. */
function wasm(): typeof WasmUtils {
  loaded ??= createRequire(import.meta.url)('@platformatic/wasm-utils') as typeof WasmUtils
  return loaded
}

/**
 * Decompresses the records of a batch.
 *
 * @param codec 1 to 4, as in the attributes
 * @returns a new buffer
 * @throws SystemicError for an unknown codec and for invalid data; LargeBatchError beyond `expandedBytesMax`
 */
export function decompress(codec: number, bytes: Uint8Array, where: BatchLocation): Buffer {
  const name = names[codec]
  if (name === undefined || name === 'none')
    throw refusedBatch(where, `it is compressed by codec ${codec}, which is unknown: use a newer release`)
  try {
    return expand(name, bytes)
  } catch (error) {
    if (!isExpansion(error)) throw corruptBatch(where, `its ${name} cannot be decompressed`, error)
    throw largeBatch(where, `its ${name} expands beyond ${expandedBytesMax / 1024 / 1024} MiB`)
  }
}

function isExpansion(error: unknown): boolean {
  return error instanceof ExpansionError || (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE')
}

function expand(name: Exclude<(typeof names)[number], 'none'>, bytes: Uint8Array): Buffer {
  if (name === 'gzip') return gunzipSync(bytes, { maxOutputLength: expandedBytesMax, chunkSize })
  if (name === 'zstd') return zstdDecompressSync(bytes, { maxOutputLength: expandedBytesMax, chunkSize })
  if (name === 'snappy') return expandSnappy(bytes)
  if (lz4LengthMax(bytes, expandedBytesMax) > expandedBytesMax) throw new ExpansionError()
  return wasm().lz4Decompress(bufferOf(bytes))
}

function expandSnappy(bytes: Uint8Array): Buffer {
  const blocks = snappyBlocks(bytes)
  let length = 0
  for (const block of blocks) {
    length += snappyLength(block)
    if (length > expandedBytesMax) throw new ExpansionError()
  }
  const expanded = blocks.map(block => wasm().snappyDecompress(bufferOf(block)))
  return expanded.length === 1 ? expanded[0]! : Buffer.concat(expanded, length)
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength)
}
