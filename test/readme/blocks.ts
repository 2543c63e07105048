// Extracts and runs the README's code blocks, so that a test has run what newcomers paste.

import { spawn } from 'node:child_process'

export interface Block {
  /** The line of its first command in the document, from 1. */
  readonly line: number
  readonly language: string
  readonly text: string
}

/**
 * The blocks under a marker `<!-- run:NAME -->`, each marker for the next block below it, in order.
 *
 * @throws Error if there is none, or for a marker without a block: a test of nothing would pass
 */
export function extractBlocks(markdown: string, name: string): Block[] {
  const blocks: Block[] = []
  const lines = markdown.split('\n')
  for (let at = 0; at < lines.length; at++) {
    if (lines[at]!.trim() !== `<!-- run:${name} -->`) continue
    const start = lines.findIndex((line, index) => index > at && line.trim() !== '')
    const fence = /^\s*(`{3,}|~{3,})(\w+)?/.exec(lines[start] ?? '')
    const end = lines.findIndex((line, index) => index > start && line.trim() === fence?.[1])
    if (fence === null || end === -1) throw new Error(`line ${at + 1}: <!-- run:${name} --> is not followed by a block of code`)
    blocks.push({ line: start + 2, language: fence[2] ?? '', text: lines.slice(start + 1, end).join('\n') })
    at = end
  }
  if (blocks.length === 0) throw new Error(`there is no block marked <!-- run:${name} -->`)
  return blocks
}

/** Shorter than the time of a test, so that no process of a command that hangs is left behind. */
const timeoutMs = 400_000

export interface RunOptions {
  readonly cwd: string
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Replacements, for instance of the port: `{ 'http://127.0.0.1:8080': url }`. */
  readonly replace?: Readonly<Record<string, string>>
  /** The expected output of the block with this number, from 0. */
  readonly expected?: Readonly<Record<number, string | RegExp>>
}

/**
 * Runs the blocks in one bash, so that they share variables, with `set -euo pipefail`.
 *
 * @returns the output of each block, standard output and errors interleaved
 * @throws Error if a command fails, takes too long, or has unexpected output; it names the block's line in the document
 */
export async function runBlocks(blocks: readonly Block[], options: RunOptions): Promise<string[]> {
  const { cwd, environment = {}, replace = {}, expected = {} } = options
  const mark = `--- block ${process.pid} `
  const script = blocks.map((block, index) => `printf '\\n%s\\n' '${mark}${index}'\n${replaced(block.text, replace)}\n`).join('')
  const { output, code } = await bash(`exec 2>&1\nset -euo pipefail\n${script}`, cwd, environment)
  const outputs = output.split(new RegExp(`\\n${mark}\\d+\\n`)).slice(1)
  const last = blocks[outputs.length - 1]
  if (code !== 0) throw new Error(`the block at line ${last?.line ?? 0} ended with ${code}:\n${outputs.at(-1) ?? output}`)
  for (const [index, block] of blocks.entries()) {
    const wanted = expected[index]
    const found = outputs[index] ?? ''
    const holds = wanted === undefined || (typeof wanted === 'string' ? found.includes(wanted) : wanted.test(found))
    if (!holds) throw new Error(`the block at line ${block.line} printed\n${found}and not ${String(wanted)}`)
  }
  return outputs
}

function replaced(text: string, replace: Readonly<Record<string, string>>): string {
  return Object.entries(replace).reduce((current, [from, to]) => current.replaceAll(from, to), text)
}

/** Runs a script without input, and ends all its processes after the time limit. */
async function bash(
  script: string,
  cwd: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<{ output: string; code: number | string }> {
  const child = spawn('bash', ['-c', script], {
    cwd,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
  let late = false
  const timer = setTimeout(() => {
    late = true
    // The whole group, so that no process started by bash remains.
    process.kill(-child.pid!, 'SIGKILL')
  }, timeoutMs)
  const code = await new Promise<number | string>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(code ?? String(signal)))
  })
  clearTimeout(timer)
  return { output: Buffer.concat(chunks).toString(), code: late ? `a timeout of ${timeoutMs} ms` : code }
}
