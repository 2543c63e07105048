// The shape of the project: layers, sizes, names, words, packages, and tables that documents share with the code.
// That each rule can fail is shown in test/tidy/.

import { beforeAll, expect, test } from 'vitest'
import { readProject, type SourceFile } from './tidy/files.ts'
import { layers } from './tidy/layers.ts'
import { namedTests } from './tidy/named-tests.ts'
import { exactVersions, lockFile } from './tidy/packages.ts'
import { names, openings, readmes, sizes } from './tidy/shape.ts'
import { tables } from './tidy/tables.ts'
import { words } from './tidy/words.ts'
import { loadRoles } from './tidy/write-readme.ts'

let files: SourceFile[]

beforeAll(async () => {
  files = await readProject()
})

test('folders import only what lies below them', () => expect(layers(files)).toEqual([]))
test('a file that is long says why', () => expect(sizes(files)).toEqual([]))
test('a file opens with a sentence that says what it is', () => expect(openings(files)).toEqual([]))
test('names are kebab-case and say what is inside', () => expect(names(files)).toEqual([]))
test('every folder has a README', () => expect(readmes(files)).toEqual([]))
test('every test that a README names is there', () => expect(namedTests(files)).toEqual([]))
test('no file promises later work, or speaks of anything but the project', () => expect(words(files)).toEqual([]))
test('versions are pinned', () => expect(exactVersions(files)).toEqual([]))
test('the lock file names no registry, every system, and the integrity of each package', () => expect(lockFile(files)).toEqual([]))
test('tables in READMEs are those of the code', async () => expect(tables(files, await loadRoles())).toEqual([]))
