// Output that is as long as what it tells of: written line by line, as fast as it is read.

import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '../../bin/streams.ts'

/**
 * Writes lines, and asks for no more than the reader takes. A reader that has seen enough, as `head` has, ends it without an error.
 *
 * @throws ToolError when it cannot be written; and what making the lines throws
 */
export async function writeLines(lines: AsyncIterable<string>, output: NodeJS.WritableStream = process.stdout): Promise<void> {
  let refusal: NodeJS.ErrnoException | undefined
  const onError = (error: NodeJS.ErrnoException): void => void (refusal = error)
  output.on('error', onError)
  try {
    await pipeline(Readable.from(lines), output, { end: false })
  } catch (error) {
    if (refusal === undefined) throw error
    if (refusal.code !== 'EPIPE') throw new ToolError(`standard output cannot be written (${refusal.code})`, { cause: error })
  }
}
