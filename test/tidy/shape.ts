// The shape of files and folders: how long, how named, how they open, and that each folder says what it is for.

import { posix } from 'node:path'
import { type Finding, isCode, isProduct, openingComment, type SourceFile } from './files.ts'

/** Of a file; a test's cases are a table that nobody reads at once. */
const linesMax = { code: 250, test: 400 }

/** What the opening comment of a longer file says before its reason. */
const reasonWords = 'Longer than'

/** Names that say nothing of what is inside: everything ends there. */
const drawers = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'types', 'misc', 'lib', 'shared', 'stuff', 'base'])

export function sizes(files: readonly SourceFile[]): Finding[] {
  return files.filter(isCode).flatMap(({ path, text }) => {
    const lines = text.split('\n').length - 1
    const most = path.endsWith('.test.ts') ? linesMax.test : linesMax.code
    if (lines <= most || openingComment(text).includes(reasonWords)) return []
    return [`${path}: has ${lines} lines: split it, or say why not in its first comment ("${reasonWords} most files: …")`]
  })
}

export function openings(files: readonly SourceFile[]): Finding[] {
  return files
    .filter(isCode)
    .filter(({ text }) => !/[\w)`'"][.:]( |$)/.test(openingComment(text)))
    .map(({ path }) => `${path}:1: opens without a comment of a sentence that says what it is`)
}

export function names(files: readonly SourceFile[]): Finding[] {
  const code = files.filter(isCode)
  const drawn = code.flatMap(({ path }) => {
    const parts = path.replace(/(\.slow)?(\.test)?(\.config)?\.(ts|js)$/, '').split('/')
    const odd = parts.find(part => !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(part))
    if (odd !== undefined) return [`${path}: ${odd} is not in kebab-case`]
    const drawer = parts.find(part => drawers.has(part))
    return drawer === undefined ? [] : [`${path}: ${drawer} is a drawer: name it after what is inside`]
  })
  return [...drawn, ...code.flatMap(doorProblems)]
}

/** `index.ts` is the door of its folder: for those outside. */
function doorProblems({ path, text }: SourceFile): Finding[] {
  if (!/^import (?!type )[^']* from '\.\/index\.ts'/m.test(text)) return []
  return path.endsWith('/main.ts') ? [] : [`${path}: imports the door of its own folder: import the file that it needs`]
}

/** Folders of code say what lives there; those of tests are described by test/README.md, as they mirror the tree. */
export function readmes(files: readonly SourceFile[]): Finding[] {
  const paths = new Set(files.map(({ path }) => path))
  const folders = new Set(files.filter(file => isCode(file) && isProduct(file)).map(({ path }) => posix.dirname(path)))
  for (const folder of ['test', 'benchmarks']) if (files.some(({ path }) => path.startsWith(`${folder}/`))) folders.add(folder)
  return [...folders]
    .map(folder => (folder === '.' ? 'README.md' : `${folder}/README.md`))
    .filter(path => !paths.has(path))
    .map(path => `${path}: is missing: say what lives there, what it promises, and how to add to it`)
}
