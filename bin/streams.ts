// What a tool reads and writes: one input from a file or standard input, one output to standard output, and its one kind of error.

import { createReadStream, fstatSync } from 'node:fs'
import { isatty } from 'node:tty'

/** A fault that the person at the terminal can mend: its message is the sentence that is shown, alone, before an exit with 1. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
}

const mebibyte = 2 ** 20

/** An input is held in memory, and what is made of it takes several times that. */
const inputBytesMax = 64 * mebibyte

/**
 * Reads all of a file, or of standard input where there is none or it is `-`.
 *
 * @param tool the command as it is typed, for the example in an error: `senml resolve`
 * @throws ToolError when nothing can be read, there is nothing in it, or too much
 */
export async function readInput(file: string | undefined, tool: string): Promise<Uint8Array> {
  const fromStandardInput = file === undefined || file === '-'
  if (fromStandardInput && isatty(0)) {
    throw new ToolError(`there is no input: name a file, or pipe one in, as in: cat FILE | sluice ${tool}`)
  }
  const what = fromStandardInput ? 'standard input' : JSON.stringify(file)
  // Read as a stream, a folder there would be an empty input.
  if (fromStandardInput && fstatSync(0).isDirectory()) throw new ToolError(`${what} is a folder: name a file`)
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of fromStandardInput ? process.stdin : createReadStream(file)) {
      chunks.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes > inputBytesMax) throw new ToolError(`${what} holds more than ${inputBytesMax / mebibyte} MiB: split it`)
    }
  } catch (error) {
    throw error instanceof ToolError ? error : unreadable(what, error)
  }
  if (bytes === 0) throw new ToolError(`${what} is empty: there is nothing to ${tool.split(' ').at(-1)}`)
  return Buffer.concat(chunks, bytes)
}

function unreadable(what: string, cause: unknown): ToolError {
  const code = codeOf(cause)
  if (code === 'ENOENT') return new ToolError(`there is no file ${what}`, { cause })
  if (code === 'EISDIR') return new ToolError(`${what} is a folder: name a file`, { cause })
  if (code === 'EACCES' || code === 'EPERM') return new ToolError(`${what} may not be read by this user (${code})`, { cause })
  return new ToolError(`${what} cannot be read (${code})`, { cause })
}

/**
 * Writes to standard output, and resolves when all of it is handed over. A reader that has seen enough, as `head` has, ends the
 * output without an error.
 *
 * @throws ToolError when it cannot be written, for instance to a full disk
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

/** @throws ToolError when standard output is a terminal, which bytes would confuse */
export function refuseTerminal(what: string, instead: string): void {
  if (isatty(1)) throw new ToolError(`${what} is not for a terminal: write it to a file or a pipe, or ${instead}`)
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
