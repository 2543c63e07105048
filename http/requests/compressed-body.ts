// Compressed bodies (RFC 9110 §8.4), of routes that take them: a body is read first, and decompressed up to the size that it may have without compression.

import type { IncomingHttpHeaders } from 'node:http'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { HttpError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether bodies may be compressed: the route decompresses them. */
    takesCompressed?: boolean
  }
}

const decoders = {
  gzip: createGunzip,
  // What a decoder is advised to support at least (RFC 8878 §3.1.1.1.2): a frame may ask for as much memory.
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
}

type Coding = keyof typeof decoders

/** As a header lists them. */
export const codingsText = Object.keys(decoders).join(', ')

/** How a body is compressed; undefined if it is not. */
export function codingOf({ 'content-encoding': encoding }: IncomingHttpHeaders): Coding | 'unsupported' | undefined {
  const name = encoding?.trim().toLowerCase()
  if (name === undefined || name === 'identity') return undefined
  if (name === 'gzip' || name === 'x-gzip') return 'gzip'
  return name === 'zstd' ? name : 'unsupported'
}

/**
 * @param bytesMax of the result: more is not decompressed
 * @param tooLarge says what to do then
 * @throws HttpError `malformed_request`, `too_large`
 */
export async function decompress(bytes: Buffer, coding: Coding, bytesMax: number, tooLarge: string): Promise<Buffer> {
  const decoder = decoders[coding]()
  decoder.end(bytes)
  const output: AsyncIterable<Buffer> = decoder
  const pieces: Buffer[] = []
  let left = bytesMax
  try {
    for await (const piece of output) {
      left -= piece.length
      if (left < 0) throw new HttpError('too_large', tooLarge)
      pieces.push(piece)
    }
  } catch (error) {
    if (error instanceof HttpError) throw error
    throw new HttpError('malformed_request', `the body is not ${coding}, as its Content-Encoding says, or is cut off`, { cause: error })
  }
  // A second frame of zstd would be left out, without an error.
  if (decoder.bytesWritten === bytes.length) return Buffer.concat(pieces)
  throw new HttpError('malformed_request', `the body has something behind its end in ${coding}: send one frame`)
}
