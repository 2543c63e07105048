// The project's own files, as input of the rules.

import { isUtf8 } from 'node:buffer'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export interface SourceFile {
  /** From the project's root, with slashes: `sinks/postgres/sink.ts`. */
  readonly path: string
  /** Empty for what is no text in UTF-8, such as a picture. */
  readonly text: string
}

/** A rule's finding: `sinks/sink.ts:12: …`, with what to do. */
export type Finding = string

const foreign = new Set(['node_modules', '.git', 'data', 'dist', 'coverage'])

/** Every file of the project in the work tree. */
export async function readProject(): Promise<SourceFile[]> {
  const paths = await pathsBelow('')
  return Promise.all(
    paths.map(async path => {
      const bytes = await readFile(join(root, path))
      return { path, text: isUtf8(bytes) ? bytes.toString() : '' }
    }),
  )
}

async function pathsBelow(folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { withFileTypes: true })
  const paths = entries
    .filter(({ name }) => !foreign.has(name) && name !== '.install-lock')
    .map(async entry => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      return entry.isDirectory() ? pathsBelow(path) : entry.isFile() ? [path] : []
    })
  return (await Promise.all(paths)).flat().sort()
}

/** TypeScript and JavaScript, except fixtures. */
export function isCode({ path }: SourceFile): boolean {
  return /\.(ts|js)$/.test(path) && !path.includes('/fixtures/')
}

/** Everything except tests and benchmarks. */
export function isProduct({ path }: SourceFile): boolean {
  return !/^(test|benchmarks)\//.test(path)
}

/** A file's opening comment, without its marks; empty if there is none. */
export function openingComment(text: string): string {
  const lines = text.replace(/^#!.*\n/, '').split('\n')
  const end = lines.findIndex(line => !line.startsWith('//'))
  return lines
    .slice(0, end === -1 ? lines.length : end)
    .map(line => line.slice(2).trim())
    .join(' ')
    .trim()
}
