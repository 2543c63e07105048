// Compressed bodies (RFC 9110 §8.4), of routes that take them: a body is read first, and decompressed up to the size that it may have without compression.

import type { IncomingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import { constants, gunzip, type ZstdOptions, zstdDecompress } from 'node:zlib'
import { HttpError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether bodies may be compressed: the route decompresses them. */
    takesCompressed?: boolean
  }
}

type Coding = 'gzip' | 'zstd'

/** As a header lists them. */
export const codingsText = 'gzip, zstd'
/** What a decoder is advised to support at least (RFC 8878 §3.1.1.1.2): a frame may ask for as much memory. */
const zstdWindow: ZstdOptions = { params: { [constants.ZSTD_d_windowLogMax]: 23 } }

type Decoded = { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } }
type Decode = (bytes: Buffer, options: object, done: (error: Error | null, decoded: Decoded) => void) => void

const decoders: Readonly<Record<Coding, Decode>> = {
  gzip: gunzip as unknown as Decode,
  zstd: (bytes, options, done) => (zstdDecompress as unknown as Decode)(bytes, { ...zstdWindow, ...options }, done),
}

/** How a body is compressed; undefined if it is not, null if that is not supported. */
export function codingOf({ 'content-encoding': encoding }: IncomingHttpHeaders): Coding | undefined | null {
  const name = encoding?.trim().toLowerCase()
  if (name === undefined || name === 'identity') return undefined
  if (name === 'gzip' || name === 'x-gzip') return 'gzip'
  return name === 'zstd' ? name : null
}

/**
 * @param bytesMax of the result: more is not decompressed
 * @param tooLarge says what to do then
 * @throws HttpError `malformed_request`, `too_large`
 */
export async function decompress(bytes: Buffer, coding: Coding, bytesMax: number, tooLarge: string): Promise<Buffer> {
  try {
    const { buffer, engine } = await promisify(decoders[coding])(bytes, { maxOutputLength: bytesMax, info: true })
    // A second frame of zstd would be left out, without an error.
    if (engine.bytesWritten === bytes.length) return buffer
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new HttpError('too_large', tooLarge, { cause: error })
    }
    throw new HttpError('malformed_request', `the body is not ${coding}, as its Content-Encoding says, or is cut off`, { cause: error })
  }
  throw new HttpError('malformed_request', `the body has something behind its end in ${coding}: send one frame`)
}
