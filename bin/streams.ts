// Input and output of a tool: it reads a file or standard input, writes to standard output, and throws ToolError.

import { createReadStream, fstatSync } from 'node:fs'
import { access, constants, stat } from 'node:fs/promises'
import { addAbortSignal, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { isatty } from 'node:tty'

/** An error that the user can fix. The tool prints only its message, then exits with 1. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
}

const mebibyte = 2 ** 20

/** The input is held in memory, and its decoded form takes several times as much. */
const inputBytesMax = 64 * mebibyte

/**
 * Reads a whole file, or standard input if `file` is undefined or `-`.
 *
 * @param tool the command as typed, for the example in an error: `senml resolve`
 * @throws ToolError if the input cannot be read, is empty or is too large
 */
export async function readInput(file: string | undefined, tool: string): Promise<Uint8Array> {
  const what = inputName(file)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of inputChunks(file, tool)) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > inputBytesMax) throw new ToolError(`${what} has more than ${inputBytesMax / mebibyte} MiB: split it`)
  }
  if (bytes === 0) throw new ToolError(`${what} is empty: nothing to ${tool.split(' ').at(-1)}`)
  return Buffer.concat(chunks, bytes)
}

const isStandardInput = (file: string | undefined): file is '-' | undefined => file === undefined || file === '-'

/** What errors call an input. */
export function inputName(file: string | undefined): string {
  return isStandardInput(file) ? 'standard input' : JSON.stringify(file)
}

/**
 * The bytes of a file, or of standard input if `file` is undefined or `-`, read no faster than they are taken.
 *
 * @param tool the command as typed, for the example in an error
 * @param signal ends the input, as if there were no more
 * @throws ToolError if it cannot be read
 */
export async function* inputChunks(file: string | undefined, tool: string, signal?: AbortSignal): AsyncGenerator<Buffer> {
  const what = inputName(file)
  if (isStandardInput(file) && isatty(0)) {
    throw new ToolError(`no input: name a file or pipe one in, for example: cat FILE | ./sluice ${tool}`)
  }
  // Reading a folder as a stream would look like empty input.
  if (isStandardInput(file) && fstatSync(0).isDirectory()) throw new ToolError(`${what} is a folder: name a file`)
  const stream = isStandardInput(file) ? process.stdin : createReadStream(file)
  try {
    for await (const chunk of signal === undefined ? stream : addAbortSignal(signal, stream)) yield chunk as Buffer
  } catch (error) {
    if (signal?.aborted !== true) throw unreadable(what, error)
  }
}

/**
 * The bytes of an input before it is read; 0 if that is unknown, as for a pipe.
 *
 * @throws ToolError if it cannot be read
 */
export async function inputSize(file: string | undefined): Promise<number> {
  try {
    if (!isStandardInput(file)) await access(file, constants.R_OK)
    const found = isStandardInput(file) ? fstatSync(0) : await stat(file)
    if (found.isDirectory()) throw Object.assign(new Error('a folder'), { code: 'EISDIR' })
    return found.isFile() ? found.size : 0
  } catch (error) {
    throw unreadable(inputName(file), error)
  }
}

function unreadable(what: string, cause: unknown): ToolError {
  const code = codeOf(cause)
  if (code === 'ENOENT') return new ToolError(`file not found: ${what}`, { cause })
  if (code === 'EISDIR') return new ToolError(`${what} is a folder: name a file`, { cause })
  if (code === 'EACCES' || code === 'EPERM') return new ToolError(`${what} is not readable for this user (${code})`, { cause })
  return new ToolError(`${what} cannot be read (${code})`, { cause })
}

/**
 * Writes to standard output, and resolves when everything is written. If the reading process closes the pipe early, as `head` does,
 * the output ends without an error.
 *
 * @throws ToolError if it cannot be written, for example to a full disk
 */
export async function writeOutput(output: string | Uint8Array): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      process.stdout.on('error', reject)
      process.stdout.write(output, error => (error ? reject(error) : resolve()))
    })
  } catch (error) {
    if (codeOf(error) !== 'EPIPE') throw new ToolError(`standard output cannot be written (${codeOf(error)})`, { cause: error })
  }
}

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

/** @throws ToolError if standard output is a terminal, which binary data would garble */
export function refuseTerminal(what: string, instead: string): void {
  if (isatty(1)) throw new ToolError(`${what} cannot be shown on a terminal: write it to a file or a pipe, or ${instead}`)
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
