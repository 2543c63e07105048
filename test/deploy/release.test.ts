// What is checked before a release, without writing its files; release.deep.test.ts makes one.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withVersion } from '../../deploy/version.ts'
import { oneVersion } from '../tidy/packages.ts'
import { newClone, section } from './release-clone.ts'

const needed = new Set([
  'package.json',
  'package-lock.json',
  'LICENSE',
  'CHANGELOG.md',
  '.gitignore',
  'deploy/release.ts',
  'deploy/release-files.ts',
  'deploy/version.ts',
])
const smallClone = () => newClone(path => needed.has(path))

test('a dry run says what a release would do, and changes nothing', async () => {
  const { git, release } = await smallClone()
  const before = git('rev-parse', 'HEAD')
  const { code, printed } = await release(['0.2.0', '--dry-run'])
  expect([code, printed]).toEqual([0, expect.stringMatching(/^0\.2\.0 can be released: .* the tag v0\.2\.0, and dist\/ the files\n$/)])
  expect([git('rev-parse', 'HEAD'), git('tag'), git('status', '--porcelain', '--ignored')]).toEqual([before, '', ''])
})

test('everything that is in the way is listed with what to do, and nothing is changed', async () => {
  const { folder, git, write, release } = await smallClone()
  const manifest = readFileSync(join(folder, 'package.json'), 'utf8')
  const changelog = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8')
  write('package.json', manifest.replace(/"version": ".*"/, '"version": "0.10.0"'))
  write('CHANGELOG.md', changelog.replace(section, '## 0.2.0 (2026-01-01)\n\n- Something new.\n\n'))
  git('commit', '--quiet', '--all', '--message', 'Release 0.10.0')
  git('tag', 'v0.2.0')
  git('switch', '--quiet', '--create', 'fix')
  for (const path of ['LICENSE', 'new file']) write(path, '')
  const before = [git('rev-parse', 'HEAD'), git('tag'), git('status', '--porcelain', '--ignored')]
  for (const words of [['0.2.0'], ['0.2.0', '--dry-run']]) {
    const { code, printed } = await release(words)
    expect([code, printed.trim().split('\n')]).toEqual([
      1,
      [
        'release: 0.2.0 cannot be released:',
        '  - this is the branch fix: git switch main',
        '  - there are changes that are not committed (LICENSE, "new file"): commit them, or git stash --include-untracked',
        '  - the tag v0.2.0 exists: choose the next version, or write its files again with --files',
        '  - 0.2.0 is lower than 0.10.0 in package.json: choose a higher version',
        '  - CHANGELOG.md has no section "## 0.2.0 (not released)": add it, with what changed for those who run Sluice',
      ],
    ])
  }
  expect([git('rev-parse', 'HEAD'), git('tag'), git('status', '--porcelain', '--ignored')]).toEqual(before)
})

test('an empty section of the release notes is refused', async () => {
  const { folder, git, write, release } = await smallClone()
  write('CHANGELOG.md', readFileSync(join(folder, 'CHANGELOG.md'), 'utf8').replace(section, '## 0.2.0 (not released)\n\n'))
  git('commit', '--quiet', '--all', '--message', 'Begin the notes')
  expect(await release(['0.2.0', '--dry-run'])).toEqual({
    code: 1,
    printed: expect.stringMatching(/section of 0\.2\.0 in CHANGELOG\.md is empty: say/),
  })
})

test('wrong calls end with 2 and the usage, --help with 0, and --files needs the tag', async () => {
  const { release } = await smallClone()
  const wrong = [[], ['v0.2.0'], ['0.2.0-rc.1'], ['0.2.0', '--push'], ['0.2.0', '--dry-run', '--files']]
  const usage = expect.stringMatching(/^release: .*\n\nUsage: npm run release -- </s)
  expect(await Promise.all(wrong.map(words => release(words)))).toEqual(wrong.map(() => ({ code: 2, printed: usage })))
  expect(await release(['--help'])).toEqual({ code: 0, printed: expect.stringMatching(/^Usage: .* 0\.2\.0 --dry-run /s) })
  expect(await release(['0.2.0', '--files'])).toEqual({
    code: 1,
    printed: expect.stringMatching(/^release: there is no tag v0\.2\.0: git fetch --tags/),
  })
})

test('what repeats the version of package.json has another one only until a release sets it, and documents leave it out', () => {
  const written = {
    'deploy/compose.yaml': 'image: sluice:0.1.0\n# postgres://sluice@127.0.0.1/sluice\n',
    'deploy/Dockerfile': 'FROM node:24.1.0\nARG VERSION=0.1.0\n',
    'deploy/helm/Chart.yaml': 'apiVersion: v2\nversion: 0.1.0\nappVersion: "0.1.0"\nkubeVersion: ">=1.30.0-0"\n',
    'docs/guides/deploy.md': 'docker run sluice:0.2.0\n',
  }
  const files = Object.entries(written).map(([path, text]) => ({ path, text }))
  const manifest = { path: 'package.json', text: '{"version":"0.2.0"}' }
  expect(oneVersion([manifest, ...files])).toEqual([
    'deploy/compose.yaml:1: 0.1.0 is not the version in package.json, 0.2.0',
    'deploy/Dockerfile:2: 0.1.0 is not the version in package.json, 0.2.0',
    'deploy/helm/Chart.yaml:2: 0.1.0 is not the version in package.json, 0.2.0',
    'deploy/helm/Chart.yaml:3: 0.1.0 is not the version in package.json, 0.2.0',
    'docs/guides/deploy.md:1: 0.2.0 would stay after the next release: leave it out',
  ])
  const set = files.slice(0, 3).map(({ path, text }) => ({ path, text: withVersion(path, text, '0.2.0') }))
  expect(oneVersion([manifest, ...set])).toEqual([])
  expect(set.map(({ text }) => text).join('')).toMatch(/127\.0\.0\.1[^]*node:24\.1\.0[^]*>=1\.30\.0-0/)
})
