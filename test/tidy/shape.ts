// Rules for files and folders: length, names, opening comments, and READMEs.

import { posix } from 'node:path'
import { type Finding, isCode, isProduct, openingComment, type SourceFile } from './files.ts'

/** Maximum lines of a file; a shorter one need not be split. */
const linesMax = 400

/** How the opening comment of a longer file begins its reason. */
const reasonWords = 'Longer than'

/** Names without meaning, in which everything ends up. */
const drawers = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'types', 'misc', 'lib', 'shared', 'stuff', 'base'])

export function sizes(files: readonly SourceFile[]): Finding[] {
  return files.filter(isCode).flatMap(({ path, text }) => {
    const lines = text.split('\n').length - 1
    if (lines <= linesMax || openingComment(text).includes(reasonWords)) return []
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
    const parts = path.replace(/(\.(slow|deep))?(\.test)?(\.config)?\.(ts|js)$/, '').split('/')
    const odd = parts.find(part => !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(part))
    if (odd !== undefined) return [`${path}: ${odd} is not in kebab-case`]
    const drawer = parts.find(part => drawers.has(part))
    return drawer === undefined ? [] : [`${path}: ${drawer} is a drawer: name it after what is inside`]
  })
  return [...drawn, ...code.flatMap(doorProblems)]
}

/** Files in each store's folder of sinks: a reader of one finds everything in the others. */
const sinkFiles = ['audit', 'connection', 'encode', 'erase', 'errors', 'options', 'registry', 'schema', 'sink'].map(name => `${name}.ts`)
/** Further files of one store, named after their content. */
const ownFilesMax = 3

export function sinkFolders(files: readonly SourceFile[]): Finding[] {
  const inFolders = files.flatMap(({ path }) => [...path.matchAll(/^sinks\/([^/]+)\/([^/]+\.ts)$/g)])
  return [...Map.groupBy(inFolders, ([, store]) => store!)].flatMap(([store, found]) => {
    const names = found.map(([, , name]) => name!)
    const missing = sinkFiles.filter(name => !names.includes(name))
    const own = names.filter(name => !sinkFiles.includes(name))
    return [
      ...missing.map(name => `sinks/${store}/${name}: is missing: every sink has it (sinks/README.md)`),
      ...(own.length <= ownFilesMax ? [] : [`sinks/${store}: has ${own.join(', ')} of its own: ${ownFilesMax} files may be`]),
    ]
  })
}

/** Files in each store's folder of readers, likewise. */
const readerFiles = ['options', 'reader', 'rows', 'select'].map(name => `${name}.ts`)
const readerFilesMax = 8

export function readerFolders(files: readonly SourceFile[]): Finding[] {
  const inFolders = files.flatMap(({ path }) => [...path.matchAll(/^readers\/(cassandra|influxdb|mongodb|postgres)\/([^/]+\.ts)$/g)])
  return [...Map.groupBy(inFolders, ([, store]) => store!)].flatMap(([store, found]) => {
    const names = found.map(([, , name]) => name!)
    return [
      ...readerFiles
        .filter(name => !names.includes(name))
        .map(name => `readers/${store}/${name}: is missing: every reader has it (readers/README.md)`),
      ...(names.length <= readerFilesMax ? [] : [`readers/${store}: has ${names.length} files: ${readerFilesMax} may be`]),
    ]
  })
}

/** In one folder. */
const filesMax = 16

/** Exceptions, each with its maximum. */
const crowded: Readonly<Record<string, number>> = {
  // The root of a project has files that programs or people expect there.
  '.': 20,
  // One file for each change of the schema, in order.
  'control-plane/migrations': Infinity,
  // One page for each task.
  'docs/guides': 20,
  // One file for each promise of a writer, a store or the platform: grouping would hide them.
  'test/deploy': 18,
  'test/pipeline/kafka/consumer': 18,
  'test/pipeline/writer': 20,
  'test/sinks/cassandra': 17,
  'test/sinks/influxdb': 20,
  // One file for each rule, and one for its test.
  'test/tidy': 23,
  'test/up': 24,
  'test/writer': 24,
}

export function folderSizes(files: readonly SourceFile[]): Finding[] {
  const byFolder = Map.groupBy(
    files.filter(({ path }) => !path.includes('/fixtures/')),
    ({ path }) => posix.dirname(path),
  )
  return [...byFolder].flatMap(([folder, inside]) => {
    const most = crowded[folder] ?? filesMax
    return inside.length <= most ? [] : [`${folder}: has ${inside.length} files side by side: group them, ${most} may be`]
  })
}

/** `index.ts` is a folder's entry for other folders. */
function doorProblems({ path, text }: SourceFile): Finding[] {
  if (!/^import (?!type )[^']* from '\.\/index\.ts'/m.test(text)) return []
  return path.endsWith('/main.ts') ? [] : [`${path}: imports the door of its own folder: import the file that it needs`]
}

/** The outer folders of code must have a README; tests mirror the tree and are described by test/README.md. */
export function readmes(files: readonly SourceFile[]): Finding[] {
  const paths = new Set(files.map(({ path }) => path))
  const folders = new Set(files.filter(file => isCode(file) && isProduct(file)).map(({ path }) => outerFolderOf(path)))
  for (const folder of ['test', 'benchmarks']) if (files.some(({ path }) => path.startsWith(`${folder}/`))) folders.add(folder)
  return [...folders]
    .map(folder => (folder === '.' ? 'README.md' : `${folder}/README.md`))
    .filter(path => !paths.has(path))
    .map(path => `${path}: is missing: say what lives there, what it promises, and how to add to it`)
}

/** The folder in which a reader begins: `pipeline`, or the folder of one store. */
const outerFolderOf = (path: string): string =>
  /^(?:(?:sinks|readers)\/(?:cassandra|influxdb|mongodb|postgres)|[^/]+)(?=\/)/.exec(path)?.[0] ?? '.'
