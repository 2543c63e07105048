// What is said where Java or Maven is missing, shown with programs of that name.

import { execFileSync } from 'node:child_process'
import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

/** What a process says is missing that finds these programs and no others; each prints its text. */
function missing(programs: Readonly<Record<string, string>>, needsMaven: boolean): string {
  const folder = temporaryFolder()
  symlinkSync('/bin/sh', join(folder, 'sh'))
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho '${text}' >&2\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const module = new URL('./java-install.ts', import.meta.url).href
  const code = `import { missingJava } from ${JSON.stringify(module)}; console.log(missingJava(${needsMaven}) ?? 'nothing')`
  return execFileSync(process.execPath, ['--input-type=module', '-e', code], { env: { PATH: folder } }).toString()
}

const java17 = 'openjdk version "17.0.15" 2025-04-15'
const maven = 'Apache Maven 3.8.7'
const command = 'apt-get install -y --no-install-recommends default-jre-headless maven'

test('Java that is missing or too old is missing, and so is Maven where it is needed; one command helps', () => {
  expect(missing({}, true)).toContain(command)
  expect(missing({ java: 'openjdk version "11.0.2" 2019-01-15', mvn: maven }, true)).toContain(command)
  expect(missing({ java: 'java version "1.8.0_402"', mvn: maven }, true)).toContain(command)
  expect(missing({ java: java17 }, true)).toContain(command)
})

test('nothing is missing with both, or with Java alone where everything is installed', () => {
  expect(missing({ java: java17, mvn: maven }, true)).toBe('nothing\n')
  expect(missing({ java: 'openjdk version "21" 2023-09-19' }, false)).toBe('nothing\n')
})
