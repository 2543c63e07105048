// Rules for the project: layers, sizes, names, words, packages, and the parts of documents that are generated from code.
// The tests in test/tidy/ show that each rule can fail.

import { beforeAll, expect, test } from 'vitest'
import { shownCommands } from './tidy/commands.ts'
import { excerpts, quotedErrors } from './tidy/excerpts.ts'
import { readProject, type SourceFile } from './tidy/files.ts'
import { importCircles, layers, loadedAtOnce } from './tidy/layers.ts'
import { links } from './tidy/links.ts'
import { namedFiles } from './tidy/named-files.ts'
import { wordedNames } from './tidy/names.ts'
import { exactVersions, lockFile, oneVersion } from './tidy/packages.ts'
import { promises } from './tidy/promises.ts'
import { folderSizes, names, openings, readerFolders, readmes, sinkFolders, sizes } from './tidy/shape.ts'
import { tables } from './tidy/tables.ts'
import { words } from './tidy/words.ts'
import { loadTableSources } from './tidy/write-readme.ts'

let files: SourceFile[]

beforeAll(async () => {
  files = await readProject()
})

test('folders import only lower layers', () => expect(layers(files)).toEqual([]))
test('what may run without Kafka does not load its client', () => expect(loadedAtOnce(files)).toEqual([]))
test('there are no import cycles', () => expect(importCircles(files)).toEqual([]))
test('a long file gives its reason', () => expect(sizes(files)).toEqual([]))
test('a file opens with a sentence that says what it is', () => expect(openings(files)).toEqual([]))
test('file names are kebab-case and specific', () => expect(names(files)).toEqual([]))
test('every sink has the same files', () => expect(sinkFolders(files)).toEqual([]))
test('every reader of a store has the same files', () => expect(readerFolders(files)).toEqual([]))
test('no folder has too many files', () => expect(folderSizes(files)).toEqual([]))
test("names use the project's words", () => expect(wordedNames(files)).toEqual([]))
test('every folder has a README', () => expect(readmes(files)).toEqual([]))
test('links between documents have targets', () => expect(links(files)).toEqual([]))
test('a test runs the commands that documents show', () => expect(shownCommands(files)).toEqual([]))
test('every file named in a document exists', () => expect(namedFiles(files)).toEqual([]))
test('the table of promises holds every slow test', () => expect(promises(files)).toEqual([]))
test('no file promises later work, or mentions anything outside the project', () => expect(words(files)).toEqual([]))
test('versions are pinned', () => expect(exactVersions(files)).toEqual([]))
test('every version of Sluice is that of package.json', () => expect(oneVersion(files)).toEqual([]))
test('the lock file names no registry, every system, and the integrity of each package', () => expect(lockFile(files)).toEqual([]))
test('generated tables in documents are current', async () => expect(tables(files, await loadTableSources())).toEqual([]))
test('code in documents is current', () => expect(excerpts(files)).toEqual([]))
test('errors that a guide explains are those of the code', () => expect(quotedErrors(files)).toEqual([]))
