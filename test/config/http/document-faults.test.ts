// That each fault of a description is found.

import { expect, test } from 'vitest'
import { type Document, documentFaults, type Shown } from './document-faults.ts'

const text = { schema: { type: 'string' }, example: 'a' } as Shown
const thing = { type: 'object', properties: { id: { type: 'string', examples: ['a'] } }, required: ['id'] }

/** A right one. */
function makeDocument() {
  const reference = { $ref: '#/components/schemas/Thing' }
  const operation = {
    operationId: 'viewThing',
    summary: 'View a thing',
    tags: ['things'],
    security: [{ user: [] }],
    parameters: [{ ...text, name: 'thing', in: 'path', required: true }],
    requestBody: { content: { 'application/json': { schema: reference, example: { id: 'a' } } } },
    responses: { 200: { description: 'The thing.', content: { 'application/json': { schema: reference, example: { id: 'a' } } } } },
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Test', version: '0' },
    tags: [{ name: 'things', description: 'Devices.' }],
    paths: { '/things/{thing}': { get: operation } },
    components: { schemas: { Thing: thing }, securitySchemes: { user: { type: 'http', scheme: 'bearer' } } },
  }
}
type Made = ReturnType<typeof makeDocument>
const operationOf = ({ paths }: Made) => paths['/things/{thing}'].get

test('a description without a fault has none', async () => expect(await documentFaults(makeDocument() as unknown as Document)).toEqual([]))

const faults: Readonly<Record<string, [break_: (document: Made) => unknown, fault: RegExp]>> = {
  'no OpenAPI': [document => Object.assign(document.info, { version: 7 }), /this is not OpenAPI 3\.1/],
  'no operationId': [
    document => Object.assign(operationOf(document), { operationId: undefined }),
    /^GET \/things\/\{thing\}: has no operationId/,
  ],
  'an operationId twice': [
    document => Object.assign(document.paths, { '/things/{thing}/same': { get: operationOf(document) } }),
    /the operationId viewThing is another's/,
  ],
  'no summary': [document => Object.assign(operationOf(document), { summary: undefined }), /has no summary/],
  'no tag': [document => Object.assign(operationOf(document), { tags: [] }), /has no tag/],
  'a tag that is not declared': [document => document.tags.pop(), /the tag things is not declared/],
  'a tag without a description': [document => document.tags.push({ name: 'other' } as never), /the tag other has no description/],
  'an unknown scheme': [
    document => Object.assign(operationOf(document), { security: [{ thing: [] }] }),
    /the security scheme thing is not declared/,
  ],
  'an unnamed rest': [
    document => Object.assign(operationOf(document), { parameters: [{ ...text, name: '*', in: 'path', required: true }] }),
    /the path has other parameters/,
  ],
  'a parameter without an example': [
    document => Object.assign(operationOf(document).parameters[0]!, { example: undefined }),
    /parameter thing: has no example/,
  ],
  'a body without an example': [
    document => Object.assign(operationOf(document).requestBody.content['application/json'], { example: undefined }),
    /body application\/json: has no example/,
  ],
  'an answer with a wrong example': [
    document => Object.assign(operationOf(document).responses[200].content['application/json'], { example: { id: 7 } }),
    /200 application\/json: .* is not an example/,
  ],
  'an example of nothing': [
    document => Object.assign(operationOf(document).requestBody.content['application/json'], { example: { id: 'string' } }),
    /an example says "string"/,
  ],
  'a wrong example in a schema': [
    document => Object.assign(document.components.schemas.Thing.properties.id, { examples: [7] }),
    /schema Thing: id: 7 is not an example/,
  ],
  'an answer without a description': [
    document => Object.assign(operationOf(document).responses[200], { description: 'Default Response' }),
    /200 has no description/,
  ],
  'a schema without a name': [
    document => {
      for (const one of [operationOf(document).requestBody, operationOf(document).responses[200]])
        Object.assign(one.content['application/json'], { schema: { ...thing, properties: { other: { type: 'string' } }, required: [] } })
    },
    /a schema that is used more than once has no name: .*other/,
  ],
}

test.each(Object.entries(faults))('%s is found', async (_name, [break_, fault]) => {
  const document = structuredClone(makeDocument())
  break_(document)
  const broken = JSON.parse(JSON.stringify(document)) as Document
  expect(await documentFaults(broken)).toEqual([expect.stringMatching(fault)])
})
