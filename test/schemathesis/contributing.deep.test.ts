// The commands in CONTRIBUTING.md that run Schemathesis, with a stand-in that records how it was called.

import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { startedFolder, startPlatform } from '../up/platform.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Sends requests by the configuration, like Schemathesis: `$2` is the file and `$4` the address of the description. */
const program = `#!/bin/sh
echo "called: $*"
header=$(sed -n 's/^headers = { Authorization = "\\(.*\\)" }/\\1/p' "$2" | head -1)
curl -s -o /dev/null -w 'audit: %{http_code}\\n' -H "Authorization: $header" "\${4%/openapi.json}/audit"
grep -c '^\\[\\[operations\\]\\]' "$2"
`

test('both callers sign in, and Schemathesis is called with their credentials, for five minutes', async () => {
  await using folder = await startedFolder()
  const environment = { SVC_ADMIN_EMAIL: 'chief@sluice.example', SVC_ADMIN_PASSWORD: 'the chief of them all' }
  const platform = await startPlatform({ data: folder.path, environment })
  const st = join(temporaryFolder(), 'st')
  writeFileSync(st, program)
  chmodSync(st, 0o755)
  const document = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
  const [output] = await runBlocks(extractBlocks(document, 'schemathesis'), {
    cwd: root,
    replace: { '/tmp/schemathesis/bin/st': st, 'http://127.0.0.1:8080': platform.url },
  })
  const calls = output!.match(/^called: .*$/gm)
  expect(calls).toHaveLength(2)
  for (const one of calls!) expect(one).toContain(`run ${platform.url}/openapi.json --max-time 300`)
  expect(output!.match(/^audit: .*$/gm)).toEqual(['audit: 200', 'audit: 403'])
  await platform.stop()
})
