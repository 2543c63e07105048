// The rules for folders find what they forbid.

import { expect, test } from 'vitest'
import { folderSizes, readerFolders, sinkFolders } from './shape.ts'

const inFolder = (folder: string, names: readonly string[]) => names.map(name => ({ path: `${folder}/${name}.ts`, text: '' }))
const numbered = (count: number) => Array.from({ length: count }, (_, at) => `file-${at}`)

test('a reader of a store has the common files, and at most eight', () => {
  const common = ['options', 'reader', 'rows', 'select']
  expect(readerFolders(inFolder('readers/postgres', [...common, ...numbered(4)]))).toEqual([])
  expect(readerFolders(inFolder('readers/live', numbered(9)))).toEqual([])
  expect(readerFolders(inFolder('readers/postgres', [...common.slice(1), ...numbered(6)]))).toEqual([
    'readers/postgres/options.ts: is missing: every reader has it (readers/README.md)',
    'readers/postgres: has 9 files: 8 may be',
  ])
})

test('a sink has the common files, and at most three of its own', () => {
  const common = ['audit', 'connection', 'encode', 'erase', 'errors', 'options', 'registry', 'schema', 'sink']
  expect(sinkFolders(inFolder('sinks/postgres', [...common, ...numbered(3)]))).toEqual([])
  expect(sinkFolders(inFolder('sinks/postgres', [...common.slice(1), ...numbered(4)]))).toEqual([
    'sinks/postgres/audit.ts: is missing: every sink has it (sinks/README.md)',
    'sinks/postgres: has file-0.ts, file-1.ts, file-2.ts, file-3.ts of its own: 3 files may be',
  ])
})

test('a folder has at most sixteen files side by side, or as many as its exception allows', () => {
  const below = inFolder('config/options', numbered(16))
  expect(folderSizes([...inFolder('config', numbered(16)), ...below, ...inFolder('control-plane/migrations', numbered(40))])).toEqual([])
  expect(folderSizes([...inFolder('config', numbered(17)), ...below, ...inFolder('test/writer', numbered(25))])).toEqual([
    'config: has 17 files side by side: group them, 16 may be',
    'test/writer: has 25 files side by side: group them, 24 may be',
  ])
})
