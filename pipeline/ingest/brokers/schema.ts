// The OpenAPI schemas of what brokers ask. A broker may send more than is read.

import { type TObject, Type } from 'typebox'
import { exampleIds } from '../../../control-plane/client.ts'
import { bodyCodes, errorAnswers } from '../../../http/openapi/error-schema.ts'

const username = Type.Optional(Type.String({ description: 'The id of the thing.', examples: [exampleIds.thing] }))
const password = Type.Optional(Type.String({ description: 'The key of the thing.', examples: ['f0e1d2c3-b4a5-4697-8879-6a5b4c3d2e1f'] }))
const peerhost = Type.Optional(Type.String({ description: 'The address of the device.', examples: ['192.0.2.7'] }))
const topic = Type.String({
  description: 'A topic, or the filter of a subscription.',
  examples: [`channels/${exampleIds.channel}/messages`],
})

const described = { tags: ['brokers'], security: [] }
const listed = 'Only brokers of `mqtt.brokers` are answered; others get a denial.'

const decision = {
  200: Type.Object(
    { result: Type.Enum(['allow', 'deny'], { examples: ['allow'] }) },
    { title: 'BrokerDecision', description: 'Also for a request that is not understood.' },
  ),
}

export const emqxAuthenticate = {
  ...described,
  operationId: 'authenticateForEmqx',
  summary: 'Whether EMQX may admit a device',
  description: `The HTTP authenticator of EMQX 5. ${listed}`,
  body: Type.Object({ username, password, peerhost }, { title: 'EmqxLogin' }),
  response: decision,
}

export const emqxAuthorize = {
  ...described,
  operationId: 'authorizeForEmqx',
  summary: 'Whether a device may use a topic of EMQX',
  description: `The HTTP authorizer of EMQX 5. ${listed}`,
  body: Type.Object(
    {
      username,
      topic,
      action: Type.Enum(['publish', 'subscribe'], { description: 'What the device wants to do.', examples: ['publish'] }),
    },
    { title: 'EmqxUse' },
  ),
  response: decision,
}

/** mosquitto-go-auth sends one or the other, as it is configured. */
export const formType = 'application/x-www-form-urlencoded'
const jsonOrForm = (schema: TObject) => ({ content: { 'application/json': { schema }, [formType]: { schema } } })
const consent = {
  200: Type.Object({ ok: Type.Literal(true) }, { title: 'BrokerConsent', description: 'It may.' }),
  ...errorAnswers(...bodyCodes, 'forbidden'),
}

export const mosquittoUser = {
  ...described,
  operationId: 'authenticateForMosquitto',
  summary: 'Whether Mosquitto may admit a device',
  description: `\`http_getuser_uri\` of mosquitto-go-auth. ${listed}`,
  body: jsonOrForm(Type.Object({ username, password }, { title: 'MosquittoLogin' })),
  response: consent,
}

export const mosquittoSuperuser = {
  ...described,
  operationId: 'superuserForMosquitto',
  summary: 'Whether a device may use all topics of Mosquitto: none may',
  description: '`http_superuser_uri` of mosquitto-go-auth.',
  body: jsonOrForm(Type.Object({ username }, { title: 'MosquittoUser' })),
  response: consent,
}

export const mosquittoAcl = {
  ...described,
  operationId: 'authorizeForMosquitto',
  summary: 'Whether a device may use a topic of Mosquitto',
  description: `\`http_aclcheck_uri\` of mosquitto-go-auth. ${listed}`,
  body: jsonOrForm(
    Type.Object(
      {
        username,
        topic,
        acc: Type.Union([Type.Integer(), Type.String()], {
          description: '1 to read, 2 to write, 3 for both, 4 to subscribe, 8 to unsubscribe.',
          examples: [2],
        }),
      },
      { title: 'MosquittoUse' },
    ),
  ),
  response: consent,
}
