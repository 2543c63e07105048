// What goes into the image: everything that its commands load, and nothing else.

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { matchesGlob, posix } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { vendoredFiles } from '../../console/assets.ts'
import { isCode, readProject, root } from '../tidy/files.ts'
import { importsOf } from '../tidy/layers.ts'

/** The rules of .dockerignore that this project uses: everything is left out but what a line with `!` names; `**` and a suffix leave out again. */
async function isTaken(): Promise<(path: string) => boolean> {
  const lines = (await readFile(`${root}/.dockerignore`, 'utf8')).split('\n').filter(line => line !== '' && !line.startsWith('#'))
  expect(lines.shift()).toBe('*')
  const taken = lines.filter(line => line.startsWith('!')).map(line => line.slice(1))
  const left = lines.filter(line => !line.startsWith('!')).map(line => /^\*\*\/\*(\.\w+)$/.exec(line)![1]!)
  return path => taken.some(one => path === one || path.startsWith(`${one}/`)) && !left.some(suffix => path.endsWith(suffix))
}

test('the image contains each file that a file in it loads, and no test, document or benchmark', async () => {
  const files = await readProject()
  const isInside = await isTaken()
  const inside = new Set(files.map(({ path }) => path).filter(isInside))
  expect([...inside]).toEqual(
    expect.arrayContaining(['main.ts', 'package.json', 'LICENSE', 'deploy/image/health.ts', 'roles/writer/thread.ts']),
  )
  const product =
    /^(main|commands|up|up-options)\.ts$|^(bin|config|console|control-plane|database|deploy|http|pipeline|readers|roles|sinks|transformers)\//
  expect([...inside].filter(path => !product.test(path)).sort()).toEqual(['.npmrc', 'LICENSE', 'package-lock.json', 'package.json'])
  for (const { path, text } of files) {
    if (!isCode({ path, text }) || !inside.has(path)) continue
    const loaded = importsOf(text).filter(({ specifier, kind }) => specifier.startsWith('.') && kind !== 'type')
    for (const { specifier } of loaded) expect(inside, `${path} loads ${specifier}`).toContain(posix.join(posix.dirname(path), specifier))
    for (const [, named] of text.matchAll(/new URL\('(\.?[^.'][^']*)', import\.meta\.url\)/g)) {
      const target = posix.join(posix.dirname(path), named!)
      if (target.startsWith('node_modules')) continue
      expect(
        [...inside].some(one => one === target || one.startsWith(`${target}/`)),
        `${path} reads ${named}`,
      ).toBe(true)
    }
  }
})

test('an image that would be labelled with another version than that of package.json is not built', async () => {
  const { version } = JSON.parse(await readFile(`${root}/package.json`, 'utf8')) as { version: string }
  const compiled = promisify(execFile)(process.execPath, ['deploy/image/build.ts', 'compile'], {
    cwd: root,
    env: { VERSION: `${version}9` },
  })
  await expect(compiled).rejects.toMatchObject({
    code: 1,
    stderr: `the image contains version ${version}: build it with --build-arg VERSION=${version}, not ${version}9\n`,
  })
})

test('the image contains what the console takes from packages', async () => {
  const { dependencies } = JSON.parse(await readFile(`${root}/package.json`, 'utf8')) as { dependencies: Record<string, string> }
  const [, list] = /const unused = \[([^\]]*)\]/.exec(await readFile(`${root}/deploy/image/build.ts`, 'utf8'))!
  const unused = [...list!.matchAll(/'([^']+)'/g)].map(([, glob]) => glob!)
  expect(unused.length).toBeGreaterThan(2)
  for (const path of vendoredFiles) {
    expect(dependencies).toHaveProperty([path.split('/')[0]!])
    expect(unused.filter(glob => matchesGlob(`node_modules/${path}`, glob) || matchesGlob(`node_modules/${path}`, `${glob}/**`))).toEqual(
      [],
    )
  }
})
