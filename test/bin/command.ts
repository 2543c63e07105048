// Runs the command as a process, as typed.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const main = fileURLToPath(new URL('../../main.ts', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly output: Buffer
  readonly errors: string
}

/** Runs `sluice` with these arguments, standard input and variables, and waits until it ends. */
export async function sluice(
  words: readonly string[],
  input: string | Uint8Array = '',
  environment: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [main, ...words], { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...environment } })
  return ended(child, input)
}

/** Runs a shell line in which `sluice` is the command: for pipes and redirections. */
export async function shell(line: string, cwd?: string): Promise<Ended> {
  const script = `sluice() { ${JSON.stringify(process.execPath)} ${JSON.stringify(main)} "$@"; }\n${line}`
  return ended(spawn('bash', ['-c', script], { stdio: ['pipe', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd }) }), '')
}

/** Runs a shell line on its own terminal, and returns what it shows. `script` has different options on Linux and macOS. */
export async function onTerminal(line: string): Promise<{ code: number | null; shown: string }> {
  const quoted = `'${line.replaceAll("'", String.raw`'\''`)}'`
  const { code, output } = await shell(
    process.platform === 'linux' ? `script -qec ${quoted} /dev/null` : `script -q /dev/null bash -c ${quoted}`,
  )
  return { code, shown: output.toString().replaceAll('\r', '').trim() }
}

async function ended(child: ReturnType<typeof spawn>, input: string | Uint8Array): Promise<Ended> {
  const [output, errors]: [Buffer[], Buffer[]] = [[], []]
  child.stdout!.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr!.on('data', (chunk: Buffer) => errors.push(chunk))
  // A command that rejects its options ends without reading.
  child.stdin!.on('error', error => {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  })
  child.stdin!.end(input)
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  return { code, output: Buffer.concat(output), errors: Buffer.concat(errors).toString() }
}

/** Standard output of a command that must succeed without other output. */
export async function outputOf(words: readonly string[], input?: string | Uint8Array): Promise<Buffer> {
  const { code, output, errors } = await sluice(words, input)
  if (code !== 0 || errors !== '') throw new Error(`sluice ${words.join(' ')} ended with ${code}: ${errors}`)
  return output
}

/** The error of a command that must fail: one sentence on one line, nothing on standard output, exit code 1. */
export async function faultOf(words: readonly string[], input?: string | Uint8Array): Promise<string> {
  return faultIn(await sluice(words, input))
}

export function faultIn({ code, output, errors }: Ended): string {
  if (code !== 1 || output.length > 0 || !/^[^\n]+\n$/.test(errors)) {
    throw new Error(`no fault of one line: ${code}, ${output.length} bytes of output, ${errors}`)
  }
  return errors.trimEnd()
}
