// Runs the command as a process, the way it is typed.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const main = fileURLToPath(new URL('../../main.ts', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly output: Buffer
  readonly errors: string
}

/** Runs `sluice` with these words and this standard input, and waits until it has ended. */
export async function sluice(words: readonly string[], input: string | Uint8Array = ''): Promise<Ended> {
  const child = spawn(process.execPath, [main, ...words], { stdio: ['pipe', 'pipe', 'pipe'] })
  return ended(child, input)
}

/** Runs a line of the shell in which `sluice` is the command: for pipes and what is redirected. */
export async function shell(line: string, cwd?: string): Promise<Ended> {
  const script = `sluice() { ${JSON.stringify(process.execPath)} ${JSON.stringify(main)} "$@"; }\n${line}`
  return ended(spawn('bash', ['-c', script], { stdio: ['pipe', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd }) }), '')
}

async function ended(child: ReturnType<typeof spawn>, input: string | Uint8Array): Promise<Ended> {
  const [output, errors]: [Buffer[], Buffer[]] = [[], []]
  child.stdout!.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr!.on('data', (chunk: Buffer) => errors.push(chunk))
  // A command that refuses its options ends without reading.
  child.stdin!.on('error', error => {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  })
  child.stdin!.end(input)
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  return { code, output: Buffer.concat(output), errors: Buffer.concat(errors).toString() }
}

/** Standard output of a command that must end well and say nothing beside. */
export async function outputOf(words: readonly string[], input?: string | Uint8Array): Promise<Buffer> {
  const { code, output, errors } = await sluice(words, input)
  if (code !== 0 || errors !== '') throw new Error(`sluice ${words.join(' ')} ended with ${code}: ${errors}`)
  return output
}

/** What a command that must fail says: one sentence on one line, nothing on standard output, exit code 1. */
export async function faultOf(words: readonly string[], input?: string | Uint8Array): Promise<string> {
  return faultIn(await sluice(words, input))
}

export function faultIn({ code, output, errors }: Ended): string {
  if (code !== 1 || output.length > 0 || !/^[^\n]+\n$/.test(errors)) {
    throw new Error(`no fault of one line: ${code}, ${output.length} bytes of output, ${errors}`)
  }
  return errors.trimEnd()
}
