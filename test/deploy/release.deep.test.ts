// A release, made in a clone: its commit, its tag, and its files, whose bytes depend on nothing but the commit.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { newClone } from './release-clone.ts'

const run = (cwd: string, program: string, ...words: string[]): string => execFileSync(program, words, { cwd, encoding: 'utf8' }).trim()

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version: string; readonly name?: string; readonly dev?: boolean }>>
}

interface Bill {
  readonly serialNumber: string
  readonly metadata: { readonly timestamp: string; readonly component: { readonly name: string; readonly version: string } }
  readonly components: readonly { readonly name: string; readonly version: string; readonly hashes: readonly object[] }[]
}

test('a release is committed and tagged, its files are reproducible, and its archive runs', { timeout: 900_000 }, async () => {
  const { folder, git, release } = await newClone()
  const before = git('rev-parse', 'HEAD')
  const dist = join(folder, 'dist')
  const made = await release(['0.2.0'])
  expect(made).toEqual({ code: 0, printed: expect.stringContaining('git push --atomic origin main v0.2.0') })

  // In the repository.
  expect([git('rev-parse', 'HEAD^'), git('log', '-1', '--format=%s'), git('cat-file', '-t', 'v0.2.0')]).toEqual([
    before,
    'Release 0.2.0',
    'tag',
  ])
  expect([git('rev-parse', 'v0.2.0^{commit}'), git('status', '--porcelain')]).toEqual([git('rev-parse', 'main'), ''])
  const changed = git('diff', '--name-only', before).split('\n')
  expect(changed.filter(path => !path.startsWith('deploy/'))).toEqual(['CHANGELOG.md', 'package-lock.json', 'package.json'])
  expect(git('diff', '--unified=0', before)).toMatch(/^\+## 0\.2\.0 \(\d{4}-\d\d-\d\d\)$/m)
  expect(git('worktree', 'list').split('\n')).toHaveLength(1)

  // The files.
  const names = ['SHA256SUMS', 'sluice-0.2.0-linux-x64.tar.gz', 'sluice-0.2.0.cdx.json', 'sluice-0.2.0.tar.gz']
  expect(readdirSync(dist).sort()).toEqual(names)
  expect(run(dist, 'sha256sum', '--check', '--strict', 'SHA256SUMS').split('\n')).toEqual(names.slice(1).map(name => `${name}: OK`))
  const text = readFileSync(join(dist, names[2]!), 'utf8')
  expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot5).validate(text)).toBeNull()
  const bill = JSON.parse(text) as Bill
  expect(bill.metadata.component).toMatchObject({ name: 'sluice', version: '0.2.0' })
  expect(Date.parse(bill.metadata.timestamp) / 1000).toBe(Number(git('log', '-1', '--format=%ct')))
  const { packages } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as Lock
  const productionPackages = Object.entries(packages)
    .filter(([path, { dev }]) => path !== '' && dev !== true)
    .map(([path, { name, version }]) => `${name ?? path.slice(path.lastIndexOf('node_modules/') + 13)}@${version}`)
  expect(bill.components.map(({ name, version }) => `${name}@${version}`).sort()).toEqual([...new Set(productionPackages)].sort())
  for (const component of bill.components) expect(component).toMatchObject({ hashes: [{ alg: 'SHA-512' }] })

  // The same bytes from the tag, on another day and whatever the work tree holds.
  const sums = readFileSync(join(dist, 'SHA256SUMS'), 'utf8')
  writeFileSync(join(folder, 'main.ts'), 'something else')
  expect((await release(['0.2.0', '--files'])).code).toBe(0)
  expect(readFileSync(join(dist, 'SHA256SUMS'), 'utf8')).toBe(sums)

  const unpacked = temporaryFolder()
  run(unpacked, 'tar', '-xzf', join(dist, names[1]!))
  expect(run(unpacked, 'find', 'sluice-0.2.0', '-newermt', bill.metadata.timestamp, '-not', '-type', 'l')).toBe('')
  expect(run(unpacked, 'sluice-0.2.0/sluice', '--version')).toBe('0.2.0')
  expect(readdirSync(join(unpacked, 'sluice-0.2.0'))).not.toContain('test')
})

test('after a failure branch, tags and work tree are as before', async () => {
  const { folder, git, release } = await newClone()
  const before = git('rev-parse', 'HEAD')
  const programs = temporaryFolder()
  mkdirSync(join(folder, 'dist'))
  writeFileSync(join(programs, 'npm'), '#!/bin/sh\necho the disk is full >&2\nexit 1\n', { mode: 0o755 })
  const { code, printed } = await release(['0.2.0'], { ...process.env, PATH: `${programs}${delimiter}${process.env['PATH']}` })
  expect([code, printed]).toEqual([1, expect.stringMatching(/^release: Command failed: npm sbom .*\nthe disk is full$/m)])
  expect([git('rev-parse', 'main'), git('tag'), git('status', '--porcelain', '--ignored')]).toEqual([before, '', ''])
  expect(git('worktree', 'list').split('\n')).toHaveLength(1)
})
