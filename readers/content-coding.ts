// Answers in gzip for who takes it (RFC 9110 §12.5.3): pages whole, exports as they are read.

import { pipeline, type Readable } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, gzip, gzipSync } from 'node:zlib'
import { weightedValues } from './weighted.ts'

/** Below, the headers of the coding and its time cost more than the bytes that it saves. */
const codedBytesMin = 1024
/** Up to here it takes 0.2 ms, which is less than another thread's turn. */
const codedHereBytesMax = 64 * 1024
/** README.md has the figures. */
const level = 1
const compress = promisify(gzip)

/** True where gzip is wanted at least as much as no coding; a star stands for what is not named. */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  const values = weightedValues(acceptEncoding)
  const weightOf = (...names: string[]): number | undefined => values.find(({ value }) => names.includes(value))?.weight
  const wanted = weightOf('gzip', 'x-gzip') ?? weightOf('*') ?? 0
  return wanted > 0 && wanted >= (weightOf('identity') ?? 0)
}

/** The text's bytes, in gzip; undefined for one that is sent as it is. */
export async function coded(text: string | Buffer): Promise<Buffer | undefined> {
  if (text.length < codedBytesMin) return undefined
  return text.length <= codedHereBytesMax ? gzipSync(text, { level }) : await compress(text, { level })
}

/** What comes from `source` in gzip, each piece at once. Whatever ends one of the two ends the other. */
export function codedStream(source: Readable): Readable {
  const coding = createGzip({ level, flush: constants.Z_SYNC_FLUSH })
  // The failure is the coding's too, and is told to whoever reads that.
  return pipeline(source, coding, () => undefined)
}
